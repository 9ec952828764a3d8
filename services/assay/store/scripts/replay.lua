#!lua
-- Put a dead letter back in its queue. Keys: requests.lua.
-- ARGV: job      Returns 1, or 0 when there is no such letter or its batch is gone or cancelled
--@include requests.lua
--@include shares.lua
--@include task_use.lua
--@include letters.lua
--@include ends.lua

local job = ARGV[1]
local j = read_job(job)
if not j or j.state ~= 'D' then return 0 end
local uid = j.uid
local key = P .. 'b:' .. uid
local b = call('HMGET', key, 'state', 'closing', 'tenant', 'overdue')
if not b[1] or b[1] == 'CANCELLED' or (b[1] == 'SEALED' and b[2] ~= '') then return 0 end
unlist_letter(job, j)
call('SADD', P .. 'live:' .. uid, job)
j.state, j.attempts, j.enqueued, j.error, j.replayed, j.charged = 'Q', 0, NOW_US, '', 1, 0
write_job(job, j)
call('HINCRBY', key, 'ended', -1)
call('HINCRBY', key, 'o:INFRA_FAILED', -1)
call('HINCRBY', P .. 'quota:' .. b[3], 'requests', 1)
call('HINCRBY', P .. 'quota:' .. b[3], 'bytes', cmsgpack.unpack(j.static)[3])
enqueue(j.stage, job, uid)
write_touched()
if b[1] == 'COMPLETE' then
  for _, kind in ipairs(KEPT_KINDS) do
    call('PERSIST', P .. kind .. uid)
  end
  call('ZREM', P .. 'gone', uid)
  call('HSET', key, 'closing', '')
  call('ZADD', P .. 'due', NOW_MS + tonumber(b[4]), uid)
end
tell(uid)
tell_planners()
return 1
