package execproto

// HTTPHeader is one header line. ValueEnvVar, in requests, names a variable
// of the server's environment whose value is appended to Value; nil: none. An
// empty name is that of a variable that is never set.
type HTTPHeader struct {
	Name        string
	Value       string
	ValueEnvVar *string
}

func (p *HTTPHeader) fields(c *codec) {
	text(c, "name", need, &p.Name)
	text(c, "value", need, &p.Value)
	optional(c, "valueEnvVar", orNull|omit, &p.ValueEnvVar, textValue)
}

// RedirectPolicy says what http/request does with a redirect.
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
	// http/request/ack). The server's maximum is 4096. TimeoutMS is not extended
	// by such waits, and the last delta is always sent.
	DeltaWindow uint64
}

func (p *HTTPRequestParams) fields(c *codec) {
	text(c, "method", need, &p.Method)
	text(c, "url", need, &p.URL)
	objects(c, "headers", omit, &p.Headers)
	base64s(c, "bodyBase64", orNull, &p.Body)
	optional(c, "timeoutMs", orNull, &p.TimeoutMS, uint64Value)
	text(c, "requestId", need, &p.RequestID)
	boolean(c, "streamResponse", 0, &p.StreamResponse)
	choice(c, "redirectPolicy", orNull|omit, &p.RedirectPolicy, redirectPolicies)
	uint64s(c, "deltaWindow", orNull|omit, &p.DeltaWindow)
}

// HTTPRequestResult answers http/request; Body is empty when it is streamed.
type HTTPRequestResult struct {
	Status  int
	Headers []HTTPHeader
	Body    []byte
}

func (r *HTTPRequestResult) fields(c *codec) {
	integer(c, "status", orNull, &r.Status)
	objects(c, "headers", orNull, &r.Headers)
	base64s(c, "bodyBase64", 0, &r.Body)
}

// AppendJSON appends r. Its text ends with the body's, so that a large body
// can be sent in parts in place of an empty one.
func (r HTTPRequestResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// HTTPAck is http/request/ack: the client has consumed the deltas of a streamed
// body up to and including Seq (see HTTPRequestParams.DeltaWindow). The highest
// Seq counts; one beyond the newest delta acknowledges future deltas too. An
// unknown RequestID is no error.
type HTTPAck struct {
	RequestID string
	Seq       uint64
}

func (p *HTTPAck) fields(c *codec) {
	text(c, "requestId", need, &p.RequestID)
	uint64s(c, "seq", need, &p.Seq)
}

// HTTPBodyDelta is one piece of a streamed body. The last has Done set, no
// data, and Error set if the body broke.
type HTTPBodyDelta struct {
	RequestID string
	Seq       uint64
	Delta     []byte
	Done      bool
	Error     *string
}

func (n *HTTPBodyDelta) fields(c *codec) {
	text(c, "requestId", need, &n.RequestID)
	uint64s(c, "seq", need, &n.Seq)
	base64s(c, "deltaBase64", need, &n.Delta)
	boolean(c, "done", orNull, &n.Done)
	optional(c, "error", orNull, &n.Error, textValue)
}
