"""The needs consumer: satisfaction before and after every act, and the part *needs*."""
