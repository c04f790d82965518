-- delete removes a task that is not running.
-- KEYS  task, its result, failure and progress, delayed set, queues set, workers with an inbox, completed, failed and
--       cancelled index
-- found queue:{name}, queue:{name}:processing and inboxes where the task may wait, its unique key
-- ARGV  prefix, id
-- Returns ok, missing, or conflict.
local id = ARGV[2]
local h, why = fields(id, {'status', 'type', 'priority', 'queue', 'unique_key'})
if not h then return {'missing', why} end
if h.status == 'running' then return {'conflict', h.status} end
if blank(h.status) or h.status == 'queued' then unqueue(id, h) end
for _, index in pairs(INDEX) do redis.call('ZREM', index, id) end
release_unique(h.unique_key, id)
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
return {'ok', ''}
