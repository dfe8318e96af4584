"""The witness consumer: a hash-chained mark for every act, every score set and every alarm."""
