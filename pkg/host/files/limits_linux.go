package files

// copyStep is how many bytes are copied between two looks at the context:
// about 50 ms where the file system must really move them.
const copyStep = 64 << 20
