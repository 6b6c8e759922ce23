package tracing

import "time"

// The limits of the queue and of the batches are the defaults of OpenTelemetry's batching
// processor.
const (
	// maxQueue bounds the spans that wait to be exported. With maxAttributes and maxValue they
	// take at most 10 MB, usually less than 1 MB.
	maxQueue = 2048
	// maxBatch is the largest number of spans in one request.
	maxBatch = 512
	// exportDelay is the longest time for which a span waits for others.
	exportDelay = 5 * time.Second
	// defaultTimeout bounds one request to the collector.
	defaultTimeout = 10 * time.Second

	// maxAttempts is how often a batch is sent if the collector is temporarily unavailable. The
	// first pause is firstWait, and each further pause is twice as long. The collector may ask
	// for a longer pause with Retry-After, up to maxRetryWait. Meanwhile the queue fills.
	maxAttempts  = 4
	firstWait    = time.Second
	maxRetryWait = 30 * time.Second

	// logInterval is the shortest time between two log records about dropped spans.
	logInterval = time.Minute

	// maxAttributes bounds the attributes of a span, and maxValue the bytes of a text.
	maxAttributes = 16
	maxValue      = 256
	// maxAnswer bounds how many bytes of a collector's answer are read.
	maxAnswer = 64 << 10

	// maxMember bounds the trace member of a request. A traceparent has 55 bytes, and a
	// tracestate of more than maxState bytes need not be passed on.
	maxMember = 4 << 10
	// maxState and maxStateMembers bound a tracestate (W3C Trace Context, 3.3.1).
	maxState        = 512
	maxStateMembers = 32
)
