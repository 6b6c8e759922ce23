package tracing

import "time"

// The numbers of the queue and the batches are the defaults of OpenTelemetry's batching
// processor.
const (
	// maxQueue bounds the spans that wait to be exported. With maxAttributes and maxValue they
	// take at most 10 MB, usually less than 1 MB.
	maxQueue = 2048
	// maxBatch is the number of spans that are exported at once.
	maxBatch = 512
	// exportDelay is how long a span waits for others.
	exportDelay = 5 * time.Second
	// defaultTimeout bounds one request to the collector.
	defaultTimeout = 10 * time.Second

	// maxAttempts is how often a batch is sent that the collector cannot take at the moment.
	// The waits between them begin with firstWait and double; the collector may ask for
	// more with Retry-After, up to maxRetryWait. Meanwhile the queue fills.
	maxAttempts  = 4
	firstWait    = time.Second
	maxRetryWait = 30 * time.Second

	// logInterval is how often dropped spans are logged, at most.
	logInterval = time.Minute

	// maxAttributes and maxValue bound the attributes of a span and the bytes of a text.
	maxAttributes = 16
	maxValue      = 256
	// maxAnswer bounds what is read of a collector's answer.
	maxAnswer = 64 << 10

	// maxMember bounds the trace member of a request: a traceparent has 55 bytes, and
	// tracestates of more than maxState need not be passed on.
	maxMember = 4 << 10
	// maxState and maxStateMembers bound a tracestate (W3C Trace Context, 3.3.1).
	maxState        = 512
	maxStateMembers = 32
)
