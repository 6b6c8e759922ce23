package signin

import "time"

const (
	// maxAuthFile bounds auth.json, in bytes. One with three tokens has a few
	// kilobytes.
	maxAuthFile = 1 << 20

	// maxAnswer bounds what is read of an answer of the identity service, in
	// bytes. Key sets are the longest, with some kilobytes for each key.
	maxAnswer = 1 << 20

	// maxPreview bounds what an error tells of an answer, in characters: what
	// the reference tells of a failed task registration.
	maxPreview = 512

	// maxSecret bounds a secret that is read from an input, in bytes: tokens
	// with many claims have a few kilobytes.
	maxSecret = 1 << 20

	// refreshAhead is how long before its end an access token is refreshed.
	refreshAhead = 5 * time.Minute

	// refreshAge is when an access token is refreshed that does not say when
	// it ends.
	refreshAge = 8 * 24 * time.Hour

	// requestTimeout bounds a question to the identity service. The reference
	// waits for ever there.
	requestTimeout = 30 * time.Second

	// jwksTimeout bounds the question which keys sign agents' JWTs, as in the
	// reference.
	jwksTimeout = 10 * time.Second

	// taskTimeout bounds one attempt to register a task, as in the reference.
	taskTimeout = 30 * time.Second

	// taskAttempts is how often that is tried, as in the reference.
	taskAttempts = 3

	// agentLeeway is by how much an agent's JWT may have ended: clocks differ.
	agentLeeway = time.Minute

	// revokeTimeout bounds telling the identity service that a token is not
	// used any more, on which signing out does not depend.
	revokeTimeout = 10 * time.Second
)
