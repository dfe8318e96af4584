"""Views of marks and of their verification."""
