"""The storage of an embedded catalog and of its tables' files: a folder of this machine, or an object store."""
