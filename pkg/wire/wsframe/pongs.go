package wsframe

// Pongs are the data of the pings that a connection's writer is yet to answer,
// the oldest first. There are at most as many as the channel has room for.
type Pongs chan string

// Owe has a ping be answered. When there is no room, the oldest gets no answer
// of its own: that to a later one is also one to it (RFC 6455, section 5.5.3).
// Only the connection's reader calls it; it does not wait.
func (p Pongs) Owe(ping string) {
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
