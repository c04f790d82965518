package api

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/queue"
)

// serveSocket streams as a WebSocket: one text message per event. Pages of
// other origins are refused. Closed with 1000 after the task's end, 1001 when
// the control plane stops.
func (a *API) serveSocket(ctx context.Context, w http.ResponseWriter, r *http.Request, f *follower, task *queue.Task) error {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:    []string{auth.WebSocketProtocol}, // selected when offered, as a token's carrier
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		a.log.Debug("no WebSocket", zap.String("path", r.URL.Path), zap.Error(err))
		return nil // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }() // after a close handshake it has nothing to do
	ctx = conn.CloseRead(ctx)              // clients have nothing to say
	f.to = &socketSink{ctx: ctx, conn: conn, write: a.tune.write}
	ended, err := f.run(ctx, task)
	switch {
	case ended && err == nil:
		_ = conn.Close(websocket.StatusNormalClosure, "the task has ended")
	case err == nil:
		_ = conn.Close(websocket.StatusGoingAway, "connect again")
	}
	return nil
}

type socketSink struct {
	ctx   context.Context
	conn  *websocket.Conn
	write time.Duration
}

func (s *socketSink) send(m eventMessage) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.write)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, mustJSON(m))
}

func (s *socketSink) beat() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.write)
	defer cancel()
	return s.conn.Ping(ctx)
}
