#!lua flags=allow-oom
-- Report the ends of claims. Keys: requests.lua.
-- ARGV: stage attempts_max letters_max letters_per_tenant_max, then for each report
--       kind job fence started_ns finished_ns first second third
--   END      outcome reward body              GIVEBACK
--   HANDOVER next_stage handover gathers      FAIL      error
--   GROUP    members (of a group's own job)
--   gathers: '1' if the next stage judges whole groups
--   members: packed {job, kind, first, second, third} each, in one list; kind is END, HANDOVER, or
--     FAIL: that one could not be judged, so it ends
-- Returns {statuses (1 done, 0 stale), completed: {slack_ms, HGETALL b} each}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua

local stage, attempts_max = ARGV[1], tonumber(ARGV[2])
local letters_max, own_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local ENDED_KEPT_MS = 86400 * 1000 -- then the counts of a host begin again
local HEAD, WIDTH = 4, 8
local statuses, released, told = {}, {}, {}
local served = {} -- tenant -> {requests that left the stage, their cost, correction}
local tenants = {} -- in the order of their first report: they move one estimate in turn
local ended = {} -- worker host -> requests that it judged

local function account(job, j, at)
  local tenant = tenant_of(j.uid)
  local sums = served[tenant] or { 0, 0, 0 }
  if not served[tenant] then tenants[#tenants + 1] = tenant end
  served[tenant] = sums
  local took_ns = tonumber(ARGV[at + 4]) - tonumber(ARGV[at + 3])
  local cost_us = math.max(math.floor(took_ns / 1000), COST_US_MIN)
  sums[1], sums[2], sums[3] = sums[1] + 1, sums[2] + cost_us, sums[3] + correction_us(j, cost_us)
end

local act = {}

function act.END(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  account(job, j, at)
  end_request(job, j, ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], '',
    timing(j, started, finished), service(j, started, finished))
  drop_job(job, j)
end

function act.HANDOVER(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  call('HSET', P .. 'j:' .. job, 'm', j.timings .. timing(j, started, finished),
    'v', j.services .. service(j, started, finished))
  call('SET', P .. 'o:' .. job, ARGV[at + 6])
  account(job, j, at)
  j.timings = j.timings .. timing(j, started, finished)
  j.services = j.services .. service(j, started, finished)
  j.stage, j.stages_gone = ARGV[at + 5], j.stages_gone + 1
  j.attempts, j.enqueued, j.charged = 0, NOW_US, 0
  if ARGV[at + 7] == '1' then arrive(job, j) else deliver_again(job, j, '') end
end

local function member_ends(name, j, kind, said, last, served)
  if kind == 'END' then
    end_request(name, j, said[1], said[2], said[3], '', last, served)
  else
    end_request(name, j, 'INFRA_FAILED', '', '', said[1], last, served)
  end
  drop_job(name, j)
end

local function member_continues(name, j, said, last, served)
  call('HSET', P .. 'j:' .. name, 'm', j.timings .. last, 'v', j.services .. served)
  call('SET', P .. 'o:' .. name, said[2])
  j.stage, j.stages_gone, j.state, j.error = said[1], j.stages_gone + 1, 'Q', ''
  j.attempts, j.enqueued, j.charged = 0, NOW_US, 0
  write_job(name, j)
  enqueue(j.stage, name, j.uid)
end

function act.GROUP(job, group, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  account(job, group, at)
  local there, members = {}, members_of(group)
  for _, name in ipairs(members) do there[name] = true end
  local last, served = timing(group, started, finished), service(group, started, finished, #members)
  touch(group.uid).running = touch(group.uid).running - #members
  local said = cmsgpack.unpack(ARGV[at + 5])
  for _, name in ipairs(members) do -- about those that are not named before
    for _, value in ipairs({ name, 'FAIL', JUDGED_WITHOUT, '', '' }) do said[#said + 1] = value end
  end
  for i = 1, #said, 5 do
    local name, kind = said[i], said[i + 1]
    if there[name] then -- else it was cancelled meanwhile
      there[name] = nil
      local j = read_job(name)
      j.claims = j.claims + group.claims
      local three = { said[i + 2], said[i + 3], said[i + 4] }
      if kind == 'HANDOVER' then
        member_continues(name, j, three, last, served)
      else
        member_ends(name, j, kind, three, last, served)
      end
    end
  end
  drop_group_job(job, group, true)
end

function act.FAIL(job, j, at)
  if j.attempts < attempts_max then
    deliver_again(job, j, ARGV[at + 5])
  else
    local started, finished = ARGV[at + 3], ARGV[at + 4]
    account(job, j, at)
    bury(job, j, ARGV[at + 5], timing(j, started, finished),
      service(j, started, finished, requests_of(job, j)), letters_max, own_max)
  end
end

function act.GIVEBACK(job, j)
  j.attempts, j.claims = j.attempts - 1, j.claims - 1
  deliver_again(job, j, '')
end

for at = HEAD + 1, #ARGV, WIDTH do
  local job = ARGV[at + 1]
  local j = read_job(job)
  local n = #statuses + 1
  local held = j and not told[job] and j.state == 'L' and j.stage == stage
  if held and j.fence == tonumber(ARGV[at + 2]) then
    local kind, worker = ARGV[at], j.worker
    act[kind](job, j, at)
    if kind ~= 'FAIL' and kind ~= 'GIVEBACK' then ended[worker] = (ended[worker] or 0) + 1 end
    told[job] = true
    released[#released + 1] = job
    statuses[n] = 1
  else
    statuses[n] = 0
  end
end
in_slices('ZREM', P .. 'l:' .. stage, released)
for _, tenant in ipairs(tenants) do
  local sums = served[tenant]
  learn(stage, tenant, sums[2], sums[1])
  correct(stage, tenant, sums[3])
  spend(tenant, sums[2])
end
for worker, count in pairs(ended) do
  local key = P .. 'he:' .. worker
  if call('HINCRBY', key, stage, count) == count then call('PEXPIRE', key, ENDED_KEPT_MS) end
end
write_touched()
return { statuses, completed }
