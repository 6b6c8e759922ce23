package wsframe

// Pongs is a queue of the pings that a connection's writer must answer, the oldest
// first. Its capacity is that of the channel.
type Pongs chan string

// Add queues the answer to a ping. If the queue is full, the oldest is dropped: the
// answer to a later ping answers it as well (RFC 6455, section 5.5.3). Only the
// connection's reader may call it; it does not wait.
func (p Pongs) Add(ping string) {
	for {
		select {
		case p <- ping:
			return
		default:
		}
		select {
		case <-p:
		default: // the writer has taken it
		}
	}
}
