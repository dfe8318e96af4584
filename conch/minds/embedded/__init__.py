"""What the embedded mind is made of: templates of calls, their features, what it learns of them and keeps."""
