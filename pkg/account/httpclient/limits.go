package httpclient

// maxBundle bounds a file of certificate authorities, in bytes. The file of a system has a quarter
// of a megabyte.
const maxBundle = 8 << 20
