"""The witness consumer: a hash-chained mark for every act and every score set."""
