// Package relay implements both ends of a relayed stream: the harness and the executor.
// Streams go over websockets and are encrypted between the ends. The relay only forwards
// their frames and is not trusted.
//
// An Executor keeps one websocket open, and passes each of its streams to Serve as a
// websocket.Transport:
//
//	executor := relay.NewExecutor(relay.ExecutorOptions{
//		Identity: identity, Register: register, Validate: validate,
//		Serve: func(c websocket.Transport) { _ = server.ServeConn(c) },
//	})
//	err := executor.Run(ctx)
//
// A Harness makes a stream, a Conn, on its own websocket:
//
//	harness := relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: connect})
//	conn, err := harness.Dial(ctx)
//
// Between two ends of this project a stream outlives its websockets: lost frames are sent
// again (package frame). If an end does not acknowledge, as Codex CLI's does not, the
// stream ends with its first websocket.
//
// A slow stream does not delay others. Each record waits behind at most 128 others and one
// per stream. If an end does not read its messages, acknowledgements stop, and the peer
// stops sending. If the peer does not support acknowledgements, the stream is reset.
//
// The rules are in docs/spec/relay.md §6 and §7.
package relay
