#!lua flags=allow-oom
-- Order the requests of a batch that join a queue from now on. Keys: requests.lua (b).
-- ARGV: tenant batch rank_us (0 = by the deadline)      Returns 0 when there is no such batch

local key = KEYS[1] .. 'b:' .. ARGV[1] .. ':' .. ARGV[2]
if redis.call('EXISTS', key) == 0 then return 0 end
redis.call('HSET', key, 'rank', ARGV[3])
return 1
