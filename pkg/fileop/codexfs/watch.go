package codexfs

import (
	"context"
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/watch"
	"codex.internal/pkg/wire/pathuri"
)

// errNoStream is the error of a watch whose input cannot end the watch.
var errNoStream = errors.New("fs/watch needs a file descriptor as stdin")

// serveWatch answers fs/watch and then sends a line for each batch of changes, until
// the end of the input or of the watch.
func (s *session) serveWatch(rq request) error {
	p, err := execproto.Decode[execproto.WatchParams](rq.params)
	if err != nil {
		return err
	}
	stdin, ok := s.in.r.(descriptor)
	if !ok {
		return errNoStream
	}
	path, err := pathuri.Parse(p.Path, rq.home)
	if err != nil {
		return s.fail(err)
	}
	w, err := fsops.OpenWatch(context.Background(), new(watch.Instance), path, p.Recursive, int(stdin))
	if err != nil {
		return s.fail(err)
	}
	defer w.Close()
	if err := s.answer(rq.operation, execproto.Empty{}); err != nil {
		return err
	}
	for {
		batch, ok := w.Next()
		if !ok {
			return nil
		}
		s.out.buf = fshelper.AppendOK(s.out.buf[:0], execproto.NotifyFSChanged)
		s.out.buf, _ = execproto.Append(s.out.buf, fsops.Changed(&batch)) // cannot fail, because no member is raw
		if err := s.out.end(); err != nil {
			return err
		}
		if batch.Ended != "" {
			return nil
		}
	}
}
