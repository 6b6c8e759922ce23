package cmdutil

import (
	"flag"

	"github.com/urfave/cli/v2"
)

// Operands declares what the operands of a command are. It stands among the flags of the command, because
// the library's Command has no member for it. Shell completion offers the kind of words that it names, and
// Arrange reads whether options may stand behind the operands.
//
// TestOperandsAreDeclared fails if a command shows operands in its help and declares none.
type Operands struct {
	Kind OperandKind
	// Last is the number of the last operand that Kind is for; 0: it is for all.
	Last int
	// Words are offered for OfferWords.
	Words func() []string
	// CommandLine says that the operands are a program with its arguments, as those of codex remote run. An
	// option behind the first one belongs to that program.
	CommandLine bool
}

// OperandKind says what shell completion offers for operands.
type OperandKind int

// The kinds of operands.
const (
	OfferNothing     OperandKind = iota
	OfferLocalFiles              // the shell offers files of this machine
	OfferRemoteFiles             // paths of the server
	OfferBothFiles               // paths of the server behind a colon, else files of this machine
	OfferHandles                 // of detached processes
	OfferWords                   // Operands.Words
)

// Declarations of the operands that several commands have.
var (
	LocalFiles  = &Operands{Kind: OfferLocalFiles}
	RemoteFiles = &Operands{Kind: OfferRemoteFiles}
	BothFiles   = &Operands{Kind: OfferBothFiles}
	Handles     = &Operands{Kind: OfferHandles}
	OtherWords  = &Operands{Kind: OfferNothing} // such as the id of something that is made
	CommandLine = &Operands{CommandLine: true}
)

// OperandsOf returns what a command declares about its operands; nil: nothing, as it takes none.
func OperandsOf(c *cli.Command) *Operands {
	for _, f := range c.Flags {
		if o, ok := f.(*Operands); ok {
			return o
		}
	}
	return nil
}

// For the library, Operands are an invisible flag whose name nobody can type.
var _ cli.VisibleFlag = (*Operands)(nil)

func (o *Operands) String() string            { return "" }
func (o *Operands) Apply(*flag.FlagSet) error { return nil }
func (o *Operands) Names() []string           { return []string{""} }
func (o *Operands) IsSet() bool               { return false }
func (o *Operands) IsVisible() bool           { return false }
