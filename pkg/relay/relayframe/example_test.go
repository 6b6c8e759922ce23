package relayframe_test

import (
	"fmt"
	"log"
	"time"

	"codex.internal/pkg/relay/noiseik"
	"codex.internal/pkg/relay/relayframe"
)

// Both ends of a stream after their handshake; the relay between them delivers
// the second record first.
func ExampleStream() {
	harness, executor := handshake()
	now := time.Now()
	from := relayframe.NewStream("stream-1", relayframe.Options{Harness: true}, now)
	to := relayframe.NewStream("stream-1", relayframe.Options{}, now)

	var frames []relayframe.Frame
	for _, message := range []string{`{"id":1,"method":"initialize"}`, `{"method":"initialized"}`} {
		chunks, err := noiseik.Chunks([]byte(message))
		if err != nil {
			log.Fatal(err)
		}
		for chunk := range chunks {
			if !from.Ready(len(chunk) + noiseik.RecordOverhead) {
				log.Fatal("wait for an acknowledgement")
			}
			record, err := harness.Seal(nil, chunk)
			if err != nil {
				log.Fatal(err)
			}
			frame, err := from.Send(record, nil, now)
			if err != nil {
				log.Fatal(err)
			}
			frames = append(frames, frame)
		}
	}

	var messages noiseik.MessageReader
	for _, n := range []int{1, 0} {
		out, err := to.Receive(frames[n], now)
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range out.Records {
			chunk, err := executor.Open(nil, record)
			if err != nil {
				log.Fatal(err)
			}
			err = messages.Read(chunk, func(message []byte) error {
				fmt.Printf("%s\n", message)
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		}
		for _, frame := range out.Frames {
			fmt.Println("answer:", frame.Kind, frame.Ack)
		}
	}
	// Output:
	// {"id":1,"method":"initialize"}
	// {"method":"initialized"}
	// answer: ack_frame 1
}

// handshake returns the sessions of both ends.
func handshake() (harness, executor *noiseik.Session) {
	channel := noiseik.Channel{EnvironmentID: "env-1", ExecutorRegistrationID: "registration-1", StreamID: "stream-1"}
	harnessID, err := noiseik.GenerateIdentity()
	if err != nil {
		log.Fatal(err)
	}
	executorID, err := noiseik.GenerateIdentity()
	if err != nil {
		log.Fatal(err)
	}
	initiator, message1, err := noiseik.NewInitiator(harnessID, executorID.PublicKey(), channel, []byte("authorization"))
	if err != nil {
		log.Fatal(err)
	}
	responder, err := noiseik.NewResponder(executorID, channel, message1)
	if err != nil {
		log.Fatal(err)
	}
	message2, executor, err := responder.Finish()
	if err != nil {
		log.Fatal(err)
	}
	if harness, err = initiator.Finish(message2); err != nil {
		log.Fatal(err)
	}
	return harness, executor
}
