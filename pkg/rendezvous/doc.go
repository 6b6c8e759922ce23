// Package rendezvous is the service that connects harnesses to executors they cannot reach
// directly: an environment registry, and a relay that passes frames between them
// (docs/spec/relay.md §1, §5, §8 and §9). The frames are encrypted between harness and
// executor. The service sees which harness talks to which executor and how much data they
// exchange. It can end a stream, but not read or change it.
//
//	tokens := rendezvous.OpenTokens("/var/lib/rendezvous/tokens.json")
//	srv, err := rendezvous.New(ctx, rendezvous.Options{Tokens: tokens})
//	...
//	err = srv.Serve(ctx, listener, nil) // or as an http.Handler
//	err = srv.Shutdown(ctx)
//
// # The registry
//
// An executor registers an environment with its public key and gets a signed URL for its websocket.
// A harness asks to connect to the environment. It gets a signed URL, the executor's key, and an
// authorization, which it sends to the executor inside of the handshake. The executor asks the
// registry to validate the authorization. Every call needs a token for its role and environment;
// see Token. Executors trust the registry to decide which harnesses may use them.
//
// # The relay
//
// A registration has one executor, the newest connection if there are several, and any number of
// harnesses. Frames are routed by their stream_id: the first handshake or resume claims a stream
// for its harness. When a harness disconnects, its streams are reset; streams that both ends can
// resume are reset after 30 seconds. When the executor disconnects, its harnesses are disconnected,
// and can ask to connect again.
//
// # Limits
//
// Frames are not dropped when a reader is slow: the service stops reading from a sender that
// exceeds its share until there is space. The tokens of an executor's harnesses are served in turn,
// and so are the harnesses of a token. A harness that reads nothing for a while is disconnected. A
// slow harness can slow down the executor that sends to it; it is disconnected if harnesses of
// other tokens wait for too long. No token can use all resources of an environment: see share. All
// limits are in limits.go.
//
// # State
//
// Streams and connections exist only in memory. A state file stores registrations across a restart,
// so that clients reconnect without registering again. More than one process can serve an
// environment only with a shared State and Bus; see the package natsbus.
package rendezvous
