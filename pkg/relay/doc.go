// Package relay is the two ends of the relay at which a harness and an executor
// meet: streams over websockets, encrypted between the ends. The relay only
// forwards their frames, and nobody trusts it.
//
// An Executor keeps one websocket and hands each of its streams up as a
// websocket.Transport:
//
//	executor := relay.NewExecutor(relay.ExecutorOptions{
//		Identity: identity, Register: register, Validate: validate,
//		Serve: func(c websocket.Transport) { _ = server.ServeConn(c) },
//	})
//	err := executor.Run(ctx)
//
// A Harness makes a stream, a Conn, on a websocket of its own:
//
//	harness := relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: connect})
//	conn, err := harness.Dial(ctx)
//
// Between two ends of this project a stream outlives its websockets: what was
// lost is sent again (package frame). With an end that does not
// acknowledge, such as Codex CLI's, it ends with the first.
//
// A slow stream holds up no other. Each record waits its turn behind at most
// 128 others and one per stream; whoever does not read its messages is held
// back by missing acknowledgements or, where the peer knows none, reset.
//
// The rules are in docs/spec/relay.md §6 and §7.
package relay
