#!lua
-- Open a batch, or return the one of that name. Keys: requests.lua.
-- ARGV: tenant batch task size k deadline_after_ms batches_max overdue_ms kept_ms history weight
--       results_max
-- Returns {'NEW' | 'THERE', HGETALL b} or {'NOT_FOUND' | 'CONFLICT' | 'SATURATED'}
--@include requests.lua
--@include task_use.lua
--@include letters.lua

local tenant, batch, task, size, k = unpack(ARGV, 1, 5)
local uid = tenant .. ':' .. batch
local key = P .. 'b:' .. uid
local there = call('HMGET', key, 'task', 'size', 'k')
if there[1] then
  if there[1] ~= task or there[2] ~= size or there[3] ~= k then return { 'CONFLICT' } end
  return { 'THERE', call('HGETALL', key) }
end
local task_name = tenant .. ':' .. task
local task_key = P .. 't:' .. task_name
local registered = call('HMGET', task_key, 'n', 'first', 'kept', 'until', 'refreshed')
if not registered[1] then return { 'NOT_FOUND' } end
local quota = P .. 'quota:' .. tenant
if tonumber(call('HGET', quota, 'batches') or 0) >= tonumber(ARGV[7]) then
  return { 'SATURATED' }
end
local deadline = NOW_US + tonumber(ARGV[6]) * 1000
local deadline_ms = math.ceil(deadline / 1000)
drop_letters(uid, SLICE * 10) -- of an earlier batch of this name
delete(doomed)
call('ZREM', P .. 'gone', uid)
call('HINCRBY', quota, 'batches', 1)
call('HSET', key, 'tenant', tenant, 'batch', batch, 'task', task, 'tn', registered[1],
  'first', registered[2], 'state', 'OPEN', 'closing', '', 'size', size, 'k', k,
  'opened', NOW_US, 'deadline', deadline, 'completed', 0, 'submitted', 0, 'ended', 0,
  'running', 0, 'overdue', ARGV[8], 'kept', ARGV[9], 'history', ARGV[10],
  'number', call('HINCRBY', task_key, 'batches', 1) - 1, 'rank', 0, 'risk', 0, 'natural', 0,
  'weight', ARGV[11], 'results_max', ARGV[12])
call('ZADD', P .. 'open', deadline_ms, uid)
call('ZADD', P .. 'due', deadline_ms + tonumber(ARGV[8]), uid)
use_task(task_name, tonumber(ARGV[6]) + tonumber(ARGV[8]) + tonumber(ARGV[9]),
  { unpack(registered, 3, 5) })
if call('ZREM', P .. 'hinted', task_name) == 1 then call('HDEL', P .. 'hints', task_name) end
tell_planners()
return { 'NEW', call('HGETALL', key) }
