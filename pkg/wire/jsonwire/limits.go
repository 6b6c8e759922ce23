package jsonwire

// maxDepth bounds how deep arrays and objects may be nested in a text. The protocol needs eight
// levels. The bound prevents a hostile text from exhausting the stack.
const maxDepth = 128
