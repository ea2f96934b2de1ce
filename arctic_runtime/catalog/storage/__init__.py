"""Where an embedded catalog and the files of its tables lie: a folder of this machine or an object store."""
