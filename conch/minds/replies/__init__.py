"""The reply of a chat completion: the documents of a body, the reply made of them, and the reasoning in it."""
