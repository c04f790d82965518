-- cancel ends a waiting task, or asks the owner of a running one to stop.
-- KEYS  task, delayed set, queues set, workers with an inbox, cancelled index
-- found queue:{name}, queue:{name}:processing and inboxes where the task may wait, its unique key
-- ARGV  prefix, id, by whom
-- Returns cancelled, running, missing, or conflict and the status.
local id, now = ARGV[2], now_ms()
local h, why = fields(id, {'status', 'worker_id', 'type', 'priority', 'queue', 'unique_key'})
if not h then return {'missing', why} end
if h.status == 'running' then
  redis.call('HSET', KEYS[1], 'cancel_requested', '1')
  if not blank(h.worker_id) then
    publish('autobot:worker:' .. h.worker_id, cjson.encode({kind = 'cancel', task = id, by = ARGV[3]}))
  end
  return {'running', ''}
end
if not blank(h.status) and h.status ~= 'queued' then return {'conflict', h.status} end
unqueue(id, h)
end_task(id, 'cancelled', now, nil, h.unique_key, {'failed_at', seconds(now), 'error_code', 'CANCELLED',
  'last_error', 'cancelled by ' .. ARGV[3] .. ' before it started'})
return {'cancelled', ''}
