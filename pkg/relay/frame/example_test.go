package frame_test

import (
	"fmt"
	"log"
	"time"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
)

// Both ends of a stream after their handshake. The relay between them delivers
// the second record first.
func ExampleStream() {
	harness, executor := handshake()
	now := time.Now()
	from := frame.NewStream("stream-1", frame.Options{Harness: true}, now)
	to := frame.NewStream("stream-1", frame.Options{}, now)

	var frames []frame.Frame
	for _, message := range []string{`{"id":1,"method":"initialize"}`, `{"method":"initialized"}`} {
		chunks, err := noise.Chunks([]byte(message))
		if err != nil {
			log.Fatal(err)
		}
		for chunk := range chunks {
			if !from.Ready(len(chunk) + noise.RecordOverhead) {
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

	var messages noise.MessageReader
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
func handshake() (harness, executor *noise.Session) {
	channel := noise.Channel{EnvironmentID: "env-1", ExecutorRegistrationID: "registration-1", StreamID: "stream-1"}
	harnessID, err := noise.GenerateIdentity()
	if err != nil {
		log.Fatal(err)
	}
	executorID, err := noise.GenerateIdentity()
	if err != nil {
		log.Fatal(err)
	}
	initiator, message1, err := noise.NewInitiator(harnessID, executorID.PublicKey(), channel, []byte("authorization"))
	if err != nil {
		log.Fatal(err)
	}
	responder, err := noise.NewResponder(executorID, channel, message1)
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
