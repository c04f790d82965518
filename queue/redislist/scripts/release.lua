-- release hands claims back to the front of their queues, uncounted.
-- KEYS  owner set, delayed set, cancelled index, queues set; of each claim: task, its queue and that one's processing list
-- found unique key of a task; for a task whose list is not the one its claim came from: queue:{name} and
--       queue:{name}:processing of its candidates
-- ARGV  prefix, worker, then for each claim: id, attempt, queue
-- Returns a list of settled answers: of the first claims only when enough was done.
local worker, now = ARGV[2], now_ms()
return (settle(worker, 3, 3, {'cancel_requested'}, function(i, id, h)
  redis.call('SREM', worker_key(worker, 'tasks'), id)
  requeue(id, h, now, leave_processing(id, h, ARGV[i + 2]), worker)
  return 'requeued'
end, function(h)
  return h.status == 'queued'
end))
