package execproto

import "codex.internal/pkg/wire/jsonwire"

// HTTPHeader is one header line. ValueEnvVar, in requests, names a variable of
// the server's environment whose value is appended to Value; nil: none. A
// variable with an empty name is never set.
type HTTPHeader struct {
	Name        string
	Value       string
	ValueEnvVar *string
}

func (p *HTTPHeader) Fields(c *jsonwire.Codec) {
	c.Text("name", need, &p.Name)
	c.Text("value", need, &p.Value)
	jsonwire.Optional(c, "valueEnvVar", orNull|omit, &p.ValueEnvVar, jsonwire.TextValue)
}

// RedirectPolicy selects what http/request does with a redirect.
type RedirectPolicy string

// The redirect policies; follow is the default.
const (
	RedirectFollow RedirectPolicy = "follow"
	RedirectStop   RedirectPolicy = "stop"
)

var redirectPolicies = []RedirectPolicy{RedirectFollow, RedirectStop} // the default first

// HTTPRequestParams make an HTTP request from the server's machine
// (docs/spec/wire.md §6.1). Body is nil when absent.
type HTTPRequestParams struct {
	Method         string
	URL            string
	Headers        []HTTPHeader
	Body           []byte
	TimeoutMS      *uint64
	RequestID      string
	StreamResponse bool
	RedirectPolicy RedirectPolicy
	// DeltaWindow is how many deltas of a streamed body may be unacknowledged;
	// 0: any number. While that many have not been acknowledged with
	// http/request/ack, the server reads no more of the body (extension
	// http/request/ack). The server's maximum is 4096. Such waits do not extend
	// TimeoutMS, and the last delta is always sent.
	DeltaWindow uint64
}

func (p *HTTPRequestParams) Fields(c *jsonwire.Codec) {
	c.Text("method", need, &p.Method)
	c.Text("url", need, &p.URL)
	jsonwire.Structs(c, "headers", omit, &p.Headers)
	base64Field(c, "bodyBase64", orNull, &p.Body)
	jsonwire.Optional(c, "timeoutMs", orNull, &p.TimeoutMS, jsonwire.Uint64Value)
	c.Text("requestId", need, &p.RequestID)
	c.Bool("streamResponse", 0, &p.StreamResponse)
	jsonwire.Choice(c, "redirectPolicy", orNull|omit, &p.RedirectPolicy, redirectPolicies)
	c.Uint64("deltaWindow", orNull|omit, &p.DeltaWindow)
}

// HTTPRequestResult answers http/request; Body is empty when it is streamed.
type HTTPRequestResult struct {
	Status  int
	Headers []HTTPHeader
	Body    []byte
}

func (r *HTTPRequestResult) Fields(c *jsonwire.Codec) {
	c.Int("status", orNull, &r.Status)
	jsonwire.Structs(c, "headers", orNull, &r.Headers)
	base64Field(c, "bodyBase64", 0, &r.Body)
}

// AppendJSON appends r. The body is at the end of the text, so that an empty
// body can be replaced by a large one that is sent in parts.
func (r HTTPRequestResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// HTTPAck is http/request/ack: the client has consumed the deltas of a streamed
// body up to and including Seq (see HTTPRequestParams.DeltaWindow). The highest
// Seq counts; one beyond the newest delta acknowledges future deltas too. An
// unknown RequestID is no error.
type HTTPAck struct {
	RequestID string
	Seq       uint64
}

func (p *HTTPAck) Fields(c *jsonwire.Codec) {
	c.Text("requestId", need, &p.RequestID)
	c.Uint64("seq", need, &p.Seq)
}

// HTTPBodyDelta is one piece of a streamed body. The last delta has Done set and no data. It
// has Error set if reading the body failed.
type HTTPBodyDelta struct {
	RequestID string
	Seq       uint64
	Delta     []byte
	Done      bool
	Error     *string
}

func (n *HTTPBodyDelta) Fields(c *jsonwire.Codec) {
	c.Text("requestId", need, &n.RequestID)
	c.Uint64("seq", need, &n.Seq)
	base64Field(c, "deltaBase64", need, &n.Delta)
	c.Bool("done", orNull, &n.Done)
	jsonwire.Optional(c, "error", orNull, &n.Error, jsonwire.TextValue)
}
