#!lua
-- Open a batch, or return the one of that name. Keys: requests.lua.
-- ARGV: tenant batch task size k deadline_after_ms batches_max overdue_ms kept_ms history weight
--       results_max requests bytes requests_max bytes_max record first_stage tasks_max task_kept_ms deadline_us gathers
--   deadline_us: an instant; the later of it and of now + deadline_after_ms is the deadline
--   requests, bytes: quota that the batch takes now; see `reserved` in requests.lua
--   record: of the task, to be registered if it is not there; '' = it must be there
--   gathers: the stage of a task to be registered that judges whole groups; '' = none
-- Returns {'NEW' | 'THERE', HGETALL b} or {'NOT_FOUND' | 'CONFLICT' | 'SATURATED' |
--   'QUOTA_REQUESTS' | 'QUOTA_BYTES' | 'QUOTA_TASKS' | 'OTHER_TASK'}
--@include requests.lua
--@include task_use.lua
--@include new_tasks.lua
--@include gathering.lua
--@include letters.lua

local tenant, batch, task, size, k = unpack(ARGV, 1, 5)
local requests, bytes, record = tonumber(ARGV[13]), tonumber(ARGV[14]), ARGV[17]
local uid = tenant .. ':' .. batch
local key = P .. 'b:' .. uid
local there = call('HMGET', key, 'task', 'size', 'k')
if there[1] then
  if there[1] ~= task or there[2] ~= size or there[3] ~= k then return { 'CONFLICT' } end
  return { 'THERE', call('HGETALL', key) }
end
local task_name = tenant .. ':' .. task
local task_key = P .. 't:' .. task_name
local registered = call('HMGET', task_key, 'n', 'first', 'kept', 'until', 'refreshed', 'gathers')
local is_new = not registered[1]
if is_new and record == '' then return { 'NOT_FOUND' } end
if not is_new and record ~= '' and call('HGET', task_key, 'rec') ~= record then
  return { 'OTHER_TASK' }
end
local quota = P .. 'quota:' .. tenant
local held = call('HMGET', quota, 'batches', 'requests', 'bytes')
for i = 1, 3 do held[i] = tonumber(held[i] or 0) end
if held[1] >= tonumber(ARGV[7]) then return { 'SATURATED' } end
if requests > 0 and held[2] + requests > tonumber(ARGV[15]) then return { 'QUOTA_REQUESTS' } end
if bytes > 0 and held[3] + bytes > tonumber(ARGV[16]) then return { 'QUOTA_BYTES' } end
if is_new and not has_room_for_task(tenant, ARGV[19]) then return { 'QUOTA_TASKS' } end

-- Nothing is written before this line.
if is_new then
  local number = store_task(tenant, task, record, ARGV[18], ARGV[22], ARGV[20])
  registered = { number, ARGV[18], ARGV[20], false, false, ARGV[22] ~= '' and ARGV[22] }
end
local deadline = math.max(NOW_US + tonumber(ARGV[6]) * 1000, tonumber(ARGV[21]))
local deadline_ms = math.ceil(deadline / 1000)
drop_letters(uid, SLICE * 10) -- of an earlier batch of this name
delete(doomed)
call('ZREM', P .. 'gone', uid)
call('HSET', quota, 'batches', held[1] + 1, 'requests', held[2] + requests,
  'bytes', held[3] + bytes)
call('HSET', key, 'tenant', tenant, 'batch', batch, 'task', task, 'tn', registered[1],
  'first', registered[2], 'state', 'OPEN', 'closing', '', 'size', size, 'k', k,
  'opened', NOW_US, 'deadline', deadline, 'completed', 0, 'submitted', 0, 'ended', 0,
  'running', 0, 'overdue', ARGV[8], 'kept', ARGV[9], 'history', ARGV[10],
  'number', call('HINCRBY', task_key, 'batches', 1) - 1, 'rank', 0, 'risk', 0, 'natural', 0,
  'grouped', 0, 'shift', 0, 'weight', ARGV[11], 'results_max', ARGV[12], 'reserved', requests .. ' ' .. bytes)
if registered[6] then call('HSET', key, 'gathers', registered[6]) end
call('ZADD', P .. 'open', deadline_ms, uid)
call('ZADD', P .. 'due', deadline_ms + tonumber(ARGV[8]), uid)
use_task(task_name, deadline_ms - NOW_MS + tonumber(ARGV[8]) + tonumber(ARGV[9]),
  { unpack(registered, 3, 5) })
if call('ZREM', P .. 'hinted', task_name) == 1 then call('HDEL', P .. 'hints', task_name) end
tell_planners()
return { 'NEW', call('HGETALL', key) }
