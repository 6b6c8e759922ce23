package jsonwire

// maxDepth bounds how deep arrays and objects may nest in a text. The
// protocol needs eight levels; the bound keeps a hostile text from using the
// stack.
const maxDepth = 128
