#!lua
-- Put a dead letter, of a request or of a whole group, back in its queue. Keys: requests.lua.
-- ARGV: job [tenant: only a letter of its own]
-- Returns 1, or 0 when there is no such letter, its batch is gone or cancelled, or its group has been
-- judged without it
--@include requests.lua
--@include shares.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua

local job = ARGV[1]
local j = read_job(job)
if not j or j.state ~= 'D' then return 0 end
local uid = j.uid
if ARGV[2] and tenant_of(uid) ~= ARGV[2] then return 0 end
local key = P .. 'b:' .. uid
local b = call('HMGET', key, 'state', 'closing', 'tenant', 'overdue', 'gathers')
if not b[1] or b[1] == 'CANCELLED' or (b[1] == 'SEALED' and b[2] ~= '') then return 0 end
local group = group_of(j)
if b[5] and call('HGET', P .. 'gg:' .. uid, group) == JUDGED then return 0 end
unlist_letter(job, j)
local requests, bytes = is_group(job) and members_of(j) or { job }, 0
j.state, j.attempts, j.enqueued, j.error, j.replayed, j.charged = 'Q', 0, NOW_US, '', 1, 0
write_job(job, j)
for _, name in ipairs(requests) do
  local one = read_job(name)
  one.replayed = 1
  write_job(name, one)
  bytes = bytes + cmsgpack.unpack(one.static)[3]
end
in_slices('SADD', P .. 'live:' .. uid, requests)
call('HINCRBY', key, 'ended', -#requests)
call('HINCRBY', key, 'o:INFRA_FAILED', -#requests)
call('HINCRBY', P .. 'quota:' .. b[3], 'requests', #requests)
call('HINCRBY', P .. 'quota:' .. b[3], 'bytes', bytes)
if b[5] then count_live(uid, group, #requests) end
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
