"""The witness consumer: a hash-chained mark for every act, its scores, every alarm, message, goal and pause."""
