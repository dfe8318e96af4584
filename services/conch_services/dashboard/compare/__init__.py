"""Two to six parts of lives side by side: periods, policies, generations, weight sets or agents."""
