package cmdutil

import (
	"flag"

	"github.com/urfave/cli/v2"
)

// Operands declares the operands of a command. It is one of the command's flags, because the library's
// Command has no field for it. Shell completion offers words of the declared kind. Arrange reads from
// it whether options may follow the operands.
//
// TestOperandsAreDeclared fails if a command shows operands in its help and declares none.
type Operands struct {
	Kind OperandKind
	// Last is the number of the last operand to which Kind applies; 0: all operands.
	Last int
	// Words are offered for OfferWords.
	Words func() []string
	// CommandLine means that the operands are a program with its arguments, as those of codex remote run.
	// An option after the first one belongs to that program.
	CommandLine bool
}

// OperandKind is the kind of words that shell completion offers for operands.
type OperandKind int

// The kinds of operands.
const (
	OfferNothing     OperandKind = iota
	OfferLocalFiles              // the shell offers files of this machine
	OfferRemoteFiles             // offers paths of the server
	OfferBothFiles               // offers paths of the server after a colon, otherwise local files
	OfferHandles                 // offers handles of detached processes
	OfferWords                   // offers Operands.Words
)

// Declarations of the operands that several commands have.
var (
	LocalFiles  = &Operands{Kind: OfferLocalFiles}
	RemoteFiles = &Operands{Kind: OfferRemoteFiles}
	BothFiles   = &Operands{Kind: OfferBothFiles}
	Handles     = &Operands{Kind: OfferHandles}
	OtherWords  = &Operands{Kind: OfferNothing} // words that completion cannot know, such as the id of something new
	CommandLine = &Operands{CommandLine: true}
)

// OperandsOf returns a command's declaration of operands; nil: it has no operands.
func OperandsOf(c *cli.Command) *Operands {
	for _, f := range c.Flags {
		if o, ok := f.(*Operands); ok {
			return o
		}
	}
	return nil
}

// For the library, Operands are a hidden flag whose name cannot be typed.
var _ cli.VisibleFlag = (*Operands)(nil)

func (o *Operands) String() string            { return "" }
func (o *Operands) Apply(*flag.FlagSet) error { return nil }
func (o *Operands) Names() []string           { return []string{""} }
func (o *Operands) IsSet() bool               { return false }
func (o *Operands) IsVisible() bool           { return false }
