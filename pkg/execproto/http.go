package execproto

// HTTPHeader is one header line. ValueEnvVar, in requests, names a variable
// of the server's environment whose value is appended to Value.
type HTTPHeader struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	ValueEnvVar string `json:"valueEnvVar,omitempty"`
}

// RedirectPolicy says what http/request does with a redirect.
type RedirectPolicy string

// The redirect policies; follow is the default.
const (
	RedirectFollow RedirectPolicy = "follow"
	RedirectStop   RedirectPolicy = "stop"
)

// HTTPRequestParams make an HTTP request from the server's machine
// (section 6). Body is nil when absent.
type HTTPRequestParams struct {
	Method         string         `json:"method"`
	URL            string         `json:"url"`
	Headers        []HTTPHeader   `json:"headers,omitempty"`
	Body           []byte         `json:"bodyBase64"`
	TimeoutMS      *uint64        `json:"timeoutMs"`
	RequestID      string         `json:"requestId"`
	StreamResponse bool           `json:"streamResponse"`
	RedirectPolicy RedirectPolicy `json:"redirectPolicy,omitempty"`
}

// HTTPRequestResult answers http/request; Body is empty when it is streamed.
type HTTPRequestResult struct {
	Status  int          `json:"status"`
	Headers []HTTPHeader `json:"headers"`
	Body    []byte       `json:"bodyBase64"`
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
