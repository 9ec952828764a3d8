#!lua
-- May the caller make the artifact? One maker at a time, for as long as its lease.
-- Keys (KEYS[1] is the prefix): a:<key> STRING content; ab:<key> STRING there is a maker;
-- am:<key> LIST rotated by waiters, so that each wakes the next (BLMOVE key key)
-- ARGV: key lease_ms      Returns 1 (make it) or 0 (it exists, or another worker makes it)

local P, call = KEYS[1], redis.call
if call('EXISTS', P .. 'a:' .. ARGV[1]) == 1 then return 0 end
if not call('SET', P .. 'ab:' .. ARGV[1], '1', 'NX', 'PX', ARGV[2]) then return 0 end
call('DEL', P .. 'am:' .. ARGV[1])
return 1
