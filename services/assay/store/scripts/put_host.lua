#!lua flags=allow-oom
-- Keep the record of a worker host, or renew it. Keys: requests.lua (hosts, host).
-- ARGV: worker packed lease_ms hosts_max      Returns 1 = new, 0 = renewed, -1 = there is no room
--@include requests.lua

local GONE_MAX = 64 -- removed per call
local worker = ARGV[1]
for _, gone in ipairs(call('ZRANGEBYSCORE', P .. 'hosts', '-inf', NOW_MS, 'LIMIT', 0, GONE_MAX)) do
  call('ZREM', P .. 'hosts', gone)
  call('HDEL', P .. 'host', gone)
end
local known = call('ZSCORE', P .. 'hosts', worker)
if not known and call('ZCARD', P .. 'hosts') >= tonumber(ARGV[4]) then return -1 end
call('ZADD', P .. 'hosts', NOW_MS + tonumber(ARGV[3]), worker)
call('HSET', P .. 'host', worker, ARGV[2])
if known then return 0 end
tell_planners()
return 1
