package files

// copyStep is how many bytes are copied between two checks of the context:
// about 50 ms if the file system must really move them.
const copyStep = 64 << 20
