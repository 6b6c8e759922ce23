package audit

import (
	"net"
	"time"
)

// refusal is a kind of refusals of which there is one record per refusalInterval.
type refusal struct{ kind, principal, address, method string }

// refused counts the refusals since the last record.
type refused struct {
	recorded time.Time
	last     Event // with Count of those that are not recorded yet
}

// NoteRefusal is Note for the refusal of a client, who can cause as many as it likes: the first is written, and then at
// most one record per refusalInterval for its kind, principal, address and method, with a count. What more than
// maxRefusals clients cause is counted together, without their names.
func (l *Log) NoteRefusal(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	address, _, err := net.SplitHostPort(e.Peer)
	if err != nil {
		address = e.Peer // of a Unix socket
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

// noteRefusals writes the refusals that are not recorded yet, if their interval is over or all is set, and forgets
// clients that were refused no more.
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
