package archive

import (
	"fmt"
	"io"
)

// List reads an archive and passes each entry to a function. An entry of an unknown type is a
// Problem.
func List(r io.Reader, each func(e *Entry)) error {
	p := parser{to: lister(each)}
	b := make([]byte, smallFile)
	for {
		n, err := r.Read(b)
		if err := p.write(b[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return p.close()
		}
		if err != nil {
			return err
		}
	}
}

// lister is a sink that only passes on the entries.
type lister func(e *Entry)

func (l lister) begin(e *Entry) { l(e) }

func (l lister) skip(path string, kind byte) {
	l(&Entry{Path: path, Type: Problem, Text: fmt.Sprintf("not copied: it is an entry of type %q", kind)})
}

func (lister) data([]byte) {}
func (lister) end()        {}
