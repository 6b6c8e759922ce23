package execproto

// HTTPHeader is one header line. ValueEnvVar, in requests, names a variable
// of the server's environment whose value is appended to Value; nil: none. An
// empty name is that of a variable that is never set.
type HTTPHeader struct {
	Name        string  `json:"name"`
	Value       string  `json:"value"`
	ValueEnvVar *string `json:"valueEnvVar,omitempty"`
}

// RedirectPolicy says what http/request does with a redirect.
type RedirectPolicy string

// The redirect policies; follow is the default.
const (
	RedirectFollow RedirectPolicy = "follow"
	RedirectStop   RedirectPolicy = "stop"
)

// HTTPRequestParams make an HTTP request from the server's machine
// (docs/spec/wire.md §6.1). Body is nil when absent.
type HTTPRequestParams struct {
	Method         string         `json:"method"`
	URL            string         `json:"url"`
	Headers        []HTTPHeader   `json:"headers,omitempty"`
	Body           []byte         `json:"bodyBase64"`
	TimeoutMS      *uint64        `json:"timeoutMs"`
	RequestID      string         `json:"requestId"`
	StreamResponse bool           `json:"streamResponse"`
	RedirectPolicy RedirectPolicy `json:"redirectPolicy,omitempty"`
	// DeltaWindow is how many deltas of a streamed body may be unacknowledged;
	// 0: any number. While that many have not been acknowledged with
	// http/request/ack, the server reads no more of the body (extension
	// http/request/ack). The server's maximum is 4096. TimeoutMS is not extended
	// by such waits, and the last delta is always sent.
	DeltaWindow uint64 `json:"deltaWindow,omitempty"`
}

// HTTPRequestResult answers http/request; Body is empty when it is streamed.
type HTTPRequestResult struct {
	Status  int          `json:"status"`
	Headers []HTTPHeader `json:"headers"`
	Body    []byte       `json:"bodyBase64"`
}

// HTTPAck is http/request/ack: the client has consumed the deltas of a streamed
// body up to and including Seq (see HTTPRequestParams.DeltaWindow). The highest
// Seq counts; one beyond the newest delta acknowledges future deltas too. An
// unknown RequestID is no error.
type HTTPAck struct {
	RequestID string `json:"requestId"`
	Seq       uint64 `json:"seq"`
}

// HTTPBodyDelta is one piece of a streamed body. The last has Done set, no
// data, and Error set if the body broke.
type HTTPBodyDelta struct {
	RequestID string  `json:"requestId"`
	Seq       uint64  `json:"seq"`
	Delta     []byte  `json:"deltaBase64"`
	Done      bool    `json:"done"`
	Error     *string `json:"error"`
}
