package dirfd

// maxLink is the longest target of a link, in bytes: the limit of Linux.
const maxLink = 4096

// namesBuffer is how many bytes of a directory are read at a time.
const namesBuffer = 32 << 10
