-- unexclude drops the exclude list of a waiting task.
-- KEYS  task
-- found none
-- ARGV  prefix, id, the list as it was read
-- Returns 1 when it was dropped.
local h = fields(ARGV[2], {'status', 'exclude'})
if not h or h.exclude ~= ARGV[3] or not (blank(h.status) or h.status == 'queued') then return 0 end
redis.call('HDEL', KEYS[1], 'exclude')
alarm('exclude_ignored', ARGV[2], '', 'every living worker that serves the type is excluded')
return 1
