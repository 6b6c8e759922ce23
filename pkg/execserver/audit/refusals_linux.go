package audit

import (
	"net"
	"time"
)

// refusal identifies a group of refusals, for which the log writes one record per
// refusalInterval.
type refusal struct{ kind, principal, address, method string }

// refused counts the refusals since the last record.
type refused struct {
	recorded time.Time
	last     Event // with the Count of refusals that are not yet recorded
}

// NoteRefusal is Note for the refusal of a client, which can cause any number of refusals.
// NoteRefusal writes the first one. After that it writes at most one record per refusalInterval
// for the same kind, principal, address and method, with a count. The refusals of more than
// maxRefusals clients are counted together, without their names.
func (l *Log) NoteRefusal(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	address, _, err := net.SplitHostPort(e.Peer)
	if err != nil {
		address = e.Peer // a client of a Unix socket has no address
	}
	key := refusal{e.Kind, e.Principal, address, e.Method}
	r := l.refused[key]
	if r == nil && len(l.refused) >= maxRefusals {
		key, e = refusal{kind: e.Kind}, Event{Kind: e.Kind, Reason: "refusals of many clients"}
		r = l.refused[key]
	}
	if r == nil {
		l.refused[key] = &refused{recorded: time.Now()}
		e.Count = 1
		l.note(e)
		return
	}
	e.Count = r.last.Count + 1
	r.last = e
}

// noteRefusals writes the refusals that are not yet recorded and whose interval is over; with
// all, every one. It forgets clients that were not refused again.
func (l *Log) noteRefusals(all bool) {
	for key, r := range l.refused {
		switch {
		case !all && time.Since(r.recorded) < refusalInterval:
		case r.last.Count == 0:
			delete(l.refused, key)
		default:
			l.note(r.last)
			r.recorded, r.last = time.Now(), Event{}
		}
	}
}
