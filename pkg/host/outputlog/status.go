package outputlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Status is the status of a process, as it is in the file status.
type Status struct {
	Exited    bool   `json:"exited"`
	ExitSeq   uint64 `json:"exitSeq"` // the number of the exit among the events; 0 until then
	ExitCode  int    `json:"exitCode"`
	Denied    bool   `json:"denied"`
	Refusal   string `json:"refusal"` // the reason why the sandbox could not be set up, so that no command ran
	Closed    bool   `json:"closed"`
	CloseSeq  uint64 `json:"closeSeq"`
	EndedAtMS int64  `json:"endedAtMs"` // when it closed
	Ending
}

// Ending is how a process ended. It is known when the process has closed. It is zero if a keeper of
// an older version wrote the status.
type Ending struct {
	Cause    string `json:"cause,omitempty"`
	BytesIn  int64  `json:"bytesIn,omitempty"`
	BytesOut int64  `json:"bytesOut,omitempty"`
}

const statusName = "status"

// writeStatus overwrites the previous status. The file has its full size from the beginning.
func writeStatus(f *os.File, s Status) error {
	s.Refusal = s.Refusal[:min(len(s.Refusal), maxRefusal)]
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(text) > statusBytes-1 {
		s.Refusal = ""
		if text, err = json.Marshal(s); err != nil {
			return err
		}
	}
	text = append(text, bytes.Repeat([]byte{' '}, statusBytes-1-len(text))...)
	if _, err = f.WriteAt(append(text, '\n'), 0); err != nil {
		return fmt.Errorf("write how the process ended: %w", err)
	}
	return nil
}

// parseStatus parses the content of the file status.
func parseStatus(text []byte) (Status, error) {
	var s Status
	if len(text) > statusBytes {
		return s, fmt.Errorf("the status has more than %d bytes", statusBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&s); err != nil {
		return Status{}, fmt.Errorf("the status: %w", err)
	}
	return s, nil
}

// ReadStatus returns the status of a process from its directory, without reading the output.
func ReadStatus(root *os.Root) (Status, error) {
	f, err := root.OpenFile(statusName, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Status{}, err
	}
	defer f.Close()
	return readStatus(f)
}

func readStatus(f *os.File) (Status, error) {
	text, err := io.ReadAll(io.LimitReader(f, statusBytes+1))
	if err != nil {
		return Status{}, err
	}
	return parseStatus(text)
}
