package info

// maxUserDatabase is how many bytes of the user database are read. A local one
// has some kilobytes.
const maxUserDatabase = 4 << 20
