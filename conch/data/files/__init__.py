"""The files of a data set: rows sorted on the disk, the snapshot that they become, its manifest, and its readers."""
