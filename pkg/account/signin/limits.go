package signin

import "time"

const (
	// maxAuthFile bounds auth.json, in bytes. A file with three tokens has a few kilobytes.
	maxAuthFile = 1 << 20

	// maxAnswer bounds how much of an answer of the identity service is read, in bytes. Key sets
	// are the longest answers, with some kilobytes for each key.
	maxAnswer = 1 << 20

	// maxModulus bounds the modulus of an RSA key, in bytes, as crypto/tls does. The time for
	// verifying a signature grows with the square of this size.
	maxModulus = 1024

	// maxPreview bounds how much of an answer an error repeats, in characters, as Codex
	// CLI's error for a failed task registration does.
	maxPreview = 512

	// refreshAhead is how long before its expiry an access token is refreshed.
	refreshAhead = 5 * time.Minute

	// refreshAge is the age at which an access token without an expiry is
	// refreshed.
	refreshAge = 8 * 24 * time.Hour

	// refreshGrace is how much longer a refresh may take after its caller's context has
	// ended: if the answer with the new refresh token were lost, the user would have to
	// sign in again.
	refreshGrace = 2 * time.Second

	// requestTimeout bounds a request to the identity service. Codex CLI waits forever.
	requestTimeout = 30 * time.Second

	// jwksTimeout bounds the request for the keys that sign agents' JWTs, as in
	// Codex CLI.
	jwksTimeout = 10 * time.Second

	// taskTimeout bounds one attempt to register a task, as in Codex CLI.
	taskTimeout = 30 * time.Second

	// taskAttempts bounds the attempts to register a task, as in Codex CLI.
	taskAttempts = 3

	// agentLeeway is how long after its expiry an agent's JWT is still accepted, because
	// clocks differ.
	agentLeeway = time.Minute

	// deviceTime is how long the user may take to type a code. The code is valid for that long.
	deviceTime = 15 * time.Minute

	// minInterval is the shortest pause between two polls whether the user has typed the code.
	minInterval = time.Second

	// portTries is how often a port is tried, and portPause is the pause between attempts, as in
	// Codex CLI. The process that uses the port needs some time to end.
	portTries = 10
	portPause = 200 * time.Millisecond

	// cancelTimeout bounds the request that asks another sign-in attempt to end. The other program
	// is on this machine.
	cancelTimeout = 2 * time.Second

	// headerTimeout is how long a browser on this machine may take to send its request.
	headerTimeout = 10 * time.Second

	// maxCallback bounds a request of the browser, in bytes. A code has a few hundred.
	maxCallback = 64 << 10

	// lastPage is how long the browser may take to request the last page, and lastAnswer is how
	// long it may take to read it.
	lastPage   = 5 * time.Second
	lastAnswer = 2 * time.Second

	// revokeTimeout bounds the request that revokes a token. Signing out does not depend on its
	// success.
	revokeTimeout = 10 * time.Second

	// maxBearer is the longest registration bearer, in bytes: Codex CLI's limit. The
	// registry may limit headers to less.
	maxBearer = 16 << 10
)
