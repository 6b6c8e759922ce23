package plan

// oldAttributes are calls that this architecture does not have.
var oldAttributes []uint32
