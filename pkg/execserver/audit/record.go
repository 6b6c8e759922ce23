package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Kinds of events.
const (
	EventOpened    = "log.opened"    // the log began a file, or continues it
	EventRecovered = "log.recovered" // Dropped bytes of an incomplete line were removed
	EventLost      = "log.lost"      // Lost events could not be written
	EventTampered  = "log.tampered"  // another program changed the previous file
	EventSignature = "log.signature" // a signature of all earlier lines

	EventClientRefused  = "client.refused"  // the client's token was not valid, or the client may not connect
	EventRequestRefused = "request.refused" // refused by the role or the ceiling

	EventSessionStarted = "session.started"
	EventSessionResumed = "session.resumed"
	EventSessionEnded   = "session.ended"

	EventProcessStarted  = "process.started"     // written before the process is started
	EventProcessNotRun   = "process.not_started" // written after process.started
	EventProcessEnded    = "process.ended"
	EventProcessEndAsked = "process.end_asked" // written before the status page ends the process
	EventDetachedStarted = "process.detached"  // written before the keeper starts the process
	EventTunnelOpened    = "tunnel.opened"     // written before the server connects
	EventTunnelListen    = "tunnel.listen"     // written before the server listens on the port
	EventHTTPRequest     = "http.request"      // a client's HTTP request; written before it is made
	EventSandboxRefused  = "sandbox.refused"   // nothing ran
	EventFileChanged     = "file.changed"      // written before the change
	EventFileNotChanged  = "file.failed"       // written after file.changed
	EventNetworkDecision = "network.decision"
	EventNetworkApproval = "network.approval" // the client was asked about a host
)

// Event describes what happened. Empty members are left out.
type Event struct {
	Kind string `json:"event"`

	Session   string `json:"session,omitempty"`   // digest of the session's id, as in the server's log
	Principal string `json:"principal,omitempty"` // user, certificate or token of the client
	Owner     string `json:"owner,omitempty"`     // owner of the process, if another client may end it
	Client    string `json:"client,omitempty"`    // the name that the client gives itself
	Peer      string `json:"peer,omitempty"`      // address of the client
	Thread    string `json:"threadId,omitempty"`
	ToolCall  string `json:"toolCallId,omitempty"`
	Process   string `json:"processId,omitempty"`
	Method    string `json:"method,omitempty"`

	Sandbox string `json:"sandbox,omitempty"` // sandboxType of a process
	Policy  string `json:"policy,omitempty"`  // SHA-256 of the permission profile

	Argv  []string `json:"argv,omitempty"`
	Cwd   string   `json:"cwd,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Clipped means that the line was too long and has lost its arguments and paths.
	Clipped bool `json:"clipped,omitempty"`

	Protocol string `json:"protocol,omitempty"`
	Host     string `json:"host,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Decision string `json:"decision,omitempty"`
	Source   string `json:"source,omitempty"` // source of the decision
	Reason   string `json:"reason,omitempty"`

	// Count is the number of refusals of the same client since the last record.
	Count uint64 `json:"count,omitempty"`

	Cause      string `json:"cause,omitempty"` // why a process ended
	ExitCode   *int   `json:"exitCode,omitempty"`
	DurationMS int64  `json:"durationMs,omitempty"`
	BytesIn    int64  `json:"bytesIn,omitempty"`
	BytesOut   int64  `json:"bytesOut,omitempty"`

	// Omitted is the number of decisions about the process's network that are not in the trail.
	Omitted uint64 `json:"omitted,omitempty"`

	Lost    uint64 `json:"lost,omitempty"`
	Dropped int64  `json:"dropped,omitempty"`
}

// record is a line.
type record struct {
	Seq  uint64 `json:"seq"`
	Time string `json:"time"`
	Event
	Key       string `json:"key,omitempty"`       // public key of a signature, in base64
	Signature string `json:"signature,omitempty"` // encoded in base64
	Prev      string `json:"prev"`                // SHA-256 of the previous line, without its newline; zeros in the first line
}

// digest is the SHA-256 of a line without its newline.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// timeFormat is the format of a record's time.
const timeFormat = "2006-01-02T15:04:05.000Z"

// encode returns a line without its newline. It clips a line that would have more than limit
// bytes.
func (r *record) encode(now time.Time, limit int) ([]byte, error) {
	if r.Time == "" {
		r.Time = now.UTC().Format(timeFormat)
	}
	line, err := json.Marshal(r)
	if err == nil && len(line) > limit {
		r.Argv, r.Cwd, r.Paths, r.Clipped = nil, "", nil, true
		line, err = json.Marshal(r)
	}
	return line, err
}

// signedText returns the signed text: the line without its signature. The line contains the
// digest of the previous one, which depends on all earlier lines.
func (r record) signedText() ([]byte, error) {
	r.Signature = ""
	line, err := json.Marshal(&r)
	return append([]byte("codex audit trail v1\x00"), line...), err
}

// sign sets the signature of a record, which covers all earlier lines. The other members of the
// record must be set.
func (r *record) sign(key ed25519.PrivateKey) error {
	text, err := r.signedText()
	if err == nil {
		r.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))
	}
	return err
}
